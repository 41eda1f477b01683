// Stands for classes of React Native that have these names: only what is compiled against them.
package com.facebook.react

import com.facebook.react.bridge.NativeModule
import com.facebook.react.bridge.ReactApplicationContext
import com.facebook.react.uimanager.ViewManager

interface ReactPackage {
    fun createNativeModules(reactContext: ReactApplicationContext): List<NativeModule>

    fun createViewManagers(reactContext: ReactApplicationContext): List<ViewManager<in Nothing, in Nothing>>
}
