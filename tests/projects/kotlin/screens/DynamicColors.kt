// Of androidx.compose.material3, what Android has beyond other systems: here the colours of no phone in particular.
package androidx.compose.material3

import android.content.Context

fun dynamicLightColorScheme(context: Context): ColorScheme = lightColorScheme().also { check(context.applicationContext === context) }

fun dynamicDarkColorScheme(context: Context): ColorScheme = darkColorScheme().also { check(context.applicationContext === context) }
