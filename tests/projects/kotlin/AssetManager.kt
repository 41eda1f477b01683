// An APK with one asset, called as the property "asset" says, which begins at "start" and is all the rest.
package android.content.res

import java.io.Closeable
import java.io.File
import java.io.FileInputStream
import java.io.FileNotFoundException

class AssetManager(private val apk: File) {
    fun openFd(name: String): AssetFileDescriptor {
        if (name != System.getProperty("asset")) throw FileNotFoundException(name)
        return AssetFileDescriptor(apk, System.getProperty("start").toLong())
    }
}

class AssetFileDescriptor(private val apk: File, val startOffset: Long) : Closeable {
    private val stream = FileInputStream(apk)
    val fileDescriptor = stream.fd
    val length = apk.length() - startOffset

    fun createInputStream() = FileInputStream(apk).apply { channel.position(startOffset) }

    override fun close() = stream.close()
}
