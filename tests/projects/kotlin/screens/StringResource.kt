// Of androidx.compose.ui.res, what Android has beyond other systems.
package androidx.compose.ui.res

import androidx.compose.runtime.Composable
import androidx.compose.runtime.ReadOnlyComposable
import androidx.compose.ui.platform.LocalContext

@Composable
@ReadOnlyComposable
fun stringResource(id: Int): String = LocalContext.current.getString(id)

@Composable
@ReadOnlyComposable
fun stringResource(id: Int, vararg formatArgs: Any): String = LocalContext.current.getString(id, *formatArgs)
