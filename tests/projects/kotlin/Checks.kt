// What a desktop JVM checks of the Model.kt of an app: PACKAGE, and DIMS of its first entry, are filled in by the test.
import PACKAGE.model.Golden
import PACKAGE.model.Model
import PACKAGE.model.ModelException
import java.io.File
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread
import kotlin.system.exitProcess
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.runBlocking

fun main(words: Array<String>) {
    val golden = File(words[0]).readBytes()
    val cases = Model().use { Golden.check(it, golden) }
    println("golden $cases")

    val changed = golden.copyOf()
    for (k in changed.size - 4 until changed.size) changed[k] = (changed[k].toInt() xor 0x55).toByte()
    println("changed ${fails<IllegalStateException> { Model().use { Golden.check(it, changed) } }}")

    // eight threads with an instance each, then eight with one
    println("threads ${together { Model().use { Golden.check(it, golden) } }}")
    Model().use { one ->
        val inputs = Model.ENTRIES[0].first.map { it.encode(FloatArray(DIMS_ELEMENTS)) }
        val want = one.run(0, inputs, intArrayOf(DIMS)).map { it.toFloatArray().toList() }
        println("shared ${together { repeat(20) { check(one.run(0, inputs, intArrayOf(DIMS)).map { t -> t.toFloatArray().toList() } == want || STATEFUL) } }}")
        runBlocking { List(8) { async { one.run(Model.Inputs(INPUTS)) } }.awaitAll() }
        println("coroutines 8")
        val short = inputs.mapIndexed { k, b -> if (k == 0) b.duplicate().limit(b.limit() - Model.ENTRIES[0].first[0].type.bytes).order(b.order()) as ByteBuffer else b }
        println("short ${code { one.run(0, short, intArrayOf(DIMS)) }}")
        println("heap ${fails<IllegalArgumentException> { one.run(0, inputs.map { ByteBuffer.allocate(it.limit()) }, intArrayOf(DIMS)) }}")
        println("dims ${if (intArrayOf(DIMS).isEmpty()) -16 else code { one.run(0, inputs, intArrayOf(DIMS).map { Int.MAX_VALUE }.toIntArray()) }}")
        println("few ${code { one.run(0, emptyList(), intArrayOf(DIMS)) }}")
    }

    val closed = Model().apply { close(); close() }
    println("closed ${fails<IllegalStateException> { Golden.check(closed, golden) }}")

    repeat(1000) { Model().close() }
    val before = resident()
    repeat(10_000) { Model().use { m -> if (it % 100 == 0) Golden.check(m, golden) } }
    println("grown ${resident() - before}")
    exitProcess(0)
}

fun together(work: () -> Unit): Int {
    val done = AtomicInteger()
    List(8) { thread { work(); done.incrementAndGet() } }.forEach { it.join() }
    return done.get()
}

fun code(work: () -> Unit): Int = try { work(); 0 } catch (e: ModelException) { e.code }

inline fun <reified T : Exception> fails(work: () -> Unit): Boolean = try { work(); false } catch (e: Exception) { e is T }

/** Pages that the process holds, in KiB. */
fun resident(): Long = File("/proc/self/status").readLines().first { it.startsWith("VmRSS") }.filter { it.isDigit() }.toLong()
