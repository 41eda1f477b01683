// Stands for classes of React Native that have these names: only what is compiled against them.
package com.facebook.react.bridge

class ReactApplicationContext : android.content.Context()

interface NativeModule

annotation class ReactMethod

abstract class ReactContextBaseJavaModule(context: ReactApplicationContext) : NativeModule {
    abstract fun getName(): String

    open fun invalidate() {}
}

interface Promise {
    fun resolve(value: Any?)

    fun reject(code: String, message: String?, throwable: Throwable?)
}

interface ReadableArray {
    fun size(): Int

    fun getDouble(index: Int): Double
}

interface ReadableMap {
    fun getArray(name: String): ReadableArray?

    fun getInt(name: String): Int
}

interface WritableArray : ReadableArray {
    fun pushDouble(value: Double)

    fun pushInt(value: Int)
}

interface WritableMap : ReadableMap {
    fun putMap(key: String, value: ReadableMap?)

    fun putArray(key: String, value: ReadableArray?)

    fun putInt(key: String, value: Int)
}

object Arguments {
    @JvmStatic
    fun createMap(): WritableMap = TODO()

    @JvmStatic
    fun createArray(): WritableArray = TODO()
}
