// What a desktop JVM checks of weights in a file: an asset that lies right or not, a download, and what is none.
package PACKAGE.checks

import PACKAGE.model.Golden
import PACKAGE.model.Model
import PACKAGE.model.Weights
import android.content.Context
import java.io.File
import java.io.FileNotFoundException

fun main(words: Array<String>) {
    val golden = File(words[0]).readBytes()
    val files = File(System.getProperty("files"))
    fun golden(weights: Weights) = Model(weights).use { Golden.check(it, golden) }
    println("asset ${golden(Weights.of(Context()))} ${files.list()!!.toList()}")
    val first = files.listFiles()!!.map { it.lastModified() }
    Thread.sleep(20)
    println("again ${golden(Weights.of(Context()))} ${files.listFiles()!!.map { it.lastModified() } == first}")
    val good = File(words[1])
    println("file ${golden(Weights.of(good).apply { check() })}")
    val shared = Weights.of(good)
    println("threads ${together { repeat(20) { golden(shared) } }}")
    val other = File(files, "other")
    val bytes = good.readBytes()
    other.writeBytes(bytes.copyOf(bytes.size - 64))
    println("short ${code { Model(Weights.of(other)) }} ${code { Weights.of(other).check() }}")
    bytes[bytes.size - 1] = (bytes.last().toInt() xor 1).toByte()
    other.writeBytes(bytes)
    println("spoiled ${code { Weights.of(other).check() }}")
    other.writeBytes(ByteArray(0))
    println("empty ${code { Model(Weights.of(other)) }}")
    other.delete()
    println("none ${fails<FileNotFoundException> { Weights.of(other) }}")
    System.setProperty("asset", "another")
    println("absent ${fails<FileNotFoundException> { Weights.of(Context()) }}")
}
