// androidx.activity.compose, as its documentation declares what apps call.
package androidx.activity.compose

import androidx.activity.ComponentActivity
import androidx.compose.runtime.Composable

/** What the screens' check shows. */
var shown: (@Composable () -> Unit)? = null

fun ComponentActivity.setContent(content: @Composable () -> Unit) {
    shown = content
}
