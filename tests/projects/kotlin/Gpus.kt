// What a desktop JVM checks of the Model.kt of an app with a GPU, whatever the GPU is. The test fills in PACKAGE, how a Gpu is
// MADE of `folder`, and how a Model is OPENed of `gpu`.
package PACKAGE.checks

import PACKAGE.model.Golden
import PACKAGE.model.Gpu
import PACKAGE.model.Model
import PACKAGE.model.ModelException
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread

fun made(folder: File?): Gpu = MADE

fun opened(gpu: Gpu?): Model = OPEN

/** The file of golden cases, the folder for kernels, how many times instances are opened. */
fun main(words: Array<String>) {
    val golden = File(words[0]).readBytes()
    val folder = File(words[1])
    opened(made(folder)).use { model ->
        println("engine ${model.engine} ${model.device.isNotEmpty()}")
        println("golden ${Golden.check(model, golden)}")
        println("shared ${together { repeat(3) { Golden.check(model, golden) } }}")
        refused(model)
        println("after ${Golden.check(model, golden)}")
        model.notes.forEach { println("note $it") }
    }
    println("kept ${folder.list().orEmpty().map { it.substringAfterLast('.') }}")
    println("together ${together { opened(made(folder)).use { Golden.check(it, golden) } }}")
    opened(made(null)).use { println("unkept ${Golden.check(it, golden)}") }
    opened(null).use { println("processor ${it.engine} ${it.notes} ${Golden.check(it, golden)}") }
    val closed = opened(made(folder)).apply { close(); close() }
    println("closed ${fails<IllegalStateException> { closed.engine }} ${fails<IllegalStateException> { Golden.check(closed, golden) }}")
    println("long ${fails<IllegalArgumentException> { made(File("x".repeat(500))) }}")
    val rounds = words[2].toInt()
    repeat(rounds / 4) { opened(made(folder)).close() }
    val before = resident()
    repeat(rounds) { opened(made(folder)).close() }
    println("grown ${resident() - before}")
}

/** Inputs that are not as the model wants them, which leave it as it was. */
fun refused(model: Model) {
    val infos = Model.ENTRIES[0].first
    val inputs = infos.map { it.allocate() }
    val short = inputs[0].duplicate().order(ByteOrder.nativeOrder()).limit(inputs[0].limit() - infos[0].type.bytes) as ByteBuffer
    val most = IntArray(Model.DIMS[0]) { 70 }
    println("short ${code { model.run(0, listOf(short) + inputs.drop(1), most.copyOf()) }}")
    println("dims ${code { model.run(0, inputs, most.map { it + 1 }.toIntArray()) }}")
}

/** How many of four threads end well. */
fun together(work: () -> Unit): Int {
    val done = AtomicInteger()
    List(4) { thread { work(); done.incrementAndGet() } }.forEach { it.join() }
    return done.get()
}

/** The code that work fails with, 0 if it does not. */
inline fun code(work: () -> Unit): Int = try { work(); 0 } catch (e: ModelException) { e.code }

inline fun <reified T : Exception> fails(work: () -> Unit): Boolean = try { work(); false } catch (e: Exception) { e is T }

fun resident(): Long =
    File("/proc/self/status").readLines().first { it.startsWith("VmRSS") }.filter { it.isDigit() }.toLong()
