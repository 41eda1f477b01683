// Encodes and decodes real numbers as every type of element: into files, for numpy to check. The test fills in PACKAGE.
package PACKAGE.checks

import PACKAGE.model.ElementType
import PACKAGE.model.TensorInfo
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder

/** The words: a file of floats, then for each case a type, a scale, a zero point, and a file for each direction. */
fun main(words: Array<String>) {
    val values = numbers(File(words[0]).readBytes())
    for ((type, scale, zero, stored, read) in words.drop(1).chunked(5)) {
        val info = TensorInfo("x", ElementType.valueOf(type), "", listOf(values.size), scale.toFloat(), zero.toInt())
        val encoded = info.encode(values)
        File(stored).writeBytes(ByteArray(encoded.remaining()).also { encoded.duplicate().get(it) })
        val back = ByteBuffer.allocate(4 * values.size).order(ByteOrder.nativeOrder())
        info.decode(encoded).forEach { back.putFloat(it) }
        File(read).writeBytes(back.array())
    }
    println("types ${words.size / 5}")
}

fun numbers(bytes: ByteArray): FloatArray {
    val own = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder())
    return FloatArray(bytes.size / 4) { own.getFloat() }
}
