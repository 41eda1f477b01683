// androidx.activity, as its documentation declares what apps call.
package androidx.activity

import android.content.Context
import android.os.Bundle

open class ComponentActivity : Context() {
    protected open fun onCreate(savedInstanceState: Bundle?) {}

    /** What the system does. */
    fun started() = onCreate(null)
}

fun ComponentActivity.enableEdgeToEdge() {}
