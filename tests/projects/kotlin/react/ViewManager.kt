// Stands for classes of React Native that have these names: only what is compiled against them.
package com.facebook.react.uimanager

abstract class ViewManager<T, C>
