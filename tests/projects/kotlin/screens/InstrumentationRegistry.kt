package androidx.test.platform.app

import android.content.Context

class Instrumentation(val context: Context, val targetContext: Context)

object InstrumentationRegistry {
    @JvmStatic
    fun getInstrumentation(): Instrumentation = Instrumentation(Context(), Context())
}
