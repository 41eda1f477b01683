// An APK with one asset, called as the property "asset" says, which begins at "start" and is all the rest; those of tests
// are in the folder "tests", other assets files in "assets".
package android.content.res

import java.io.Closeable
import java.io.File
import java.io.FileInputStream
import java.io.FileNotFoundException
import java.io.InputStream

class AssetManager(private val apk: File) {
    fun open(name: String): InputStream = File(System.getProperty("tests"), name).inputStream()

    fun openFd(name: String): AssetFileDescriptor {
        if (name != System.getProperty("asset")) {
            val other = File(System.getProperty("assets", ""), name)
            if (!other.isFile) throw FileNotFoundException(name)
            return AssetFileDescriptor(other, 0)
        }
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
