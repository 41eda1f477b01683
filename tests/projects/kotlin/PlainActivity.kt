// A screen without Compose, whose libraries are not to be had where the tests run: in place of an app's MainActivity.kt.
package PACKAGE

import android.app.Activity
import android.os.Bundle
import android.widget.TextView
import kotlinx.coroutines.runBlocking

class MainActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val said = DEMO.use { demo -> runBlocking { demo.run() } }
        setContentView(TextView(this).apply { text = said.joinToString("\n") { it.toFloatArray().contentToString() } })
    }
}
