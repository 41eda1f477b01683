// What a desktop JVM checks of the Model.kt of any app. The test fills in PACKAGE, and of the first entry DIMS, how many
// ELEMENTS its input has then and their VALUE at `it`, and CALL: a run of `inputs`, and its first output; of all, how one
// is made: OPEN and DEMO.
package PACKAGE.checks

import PACKAGE.Demo
import PACKAGE.model.Golden
import PACKAGE.model.Model
import PACKAGE.model.ModelException
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.concurrent.atomic.AtomicInteger
import kotlin.concurrent.thread
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.runBlocking

fun main(words: Array<String>) {
    val golden = File(words[0]).readBytes()
    println("golden ${OPEN.use { Golden.check(it, golden) }}")
    val changed = golden.copyOf()
    for (k in changed.size - 4 until changed.size) changed[k] = (changed[k].toInt() xor 0x55).toByte()
    println("changed ${fails<IllegalStateException> { OPEN.use { Golden.check(it, changed) } }}")
    println("threads ${together { OPEN.use { Golden.check(it, golden) } }}")
    OPEN.use(::checkOne)
    println("demo ${DEMO.use { runBlocking { it.run() } }.size}")
    val closed = OPEN.apply { close(); close() }
    println("closed ${fails<IllegalStateException> { Golden.check(closed, golden) }}")
    println("grown ${grown { if (it % 100 == 0) OPEN.use { m -> Golden.check(m, golden) } else OPEN.close() }}")
}

/** An instance that threads and coroutines share, and what it refuses. */
fun checkOne(one: Model) {
    val inputs = Model.ENTRIES[0].first.map { it.encode(FloatArray(ELEMENTS) { VALUE }) }
    fun here(given: List<ByteBuffer>, dims: IntArray = intArrayOf(DIMS)) =
        one.run(0, given, dims).map { it.toFloatArray().toList() }
    val want = here(inputs)
    println("varied ${want[0].toSet().size > 1}")
    println("shared ${together { repeat(20) { check(here(inputs) == want) } }}")
    val found = runBlocking { List(8) { async { one.CALL.toFloatArray().toList() } }.awaitAll() }
    println("coroutines ${found.count { it == want[0] }}")

    val last = inputs[0].limit() - Model.ENTRIES[0].first[0].type.bytes
    val short = inputs[0].duplicate().order(ByteOrder.nativeOrder()).limit(last)
    println("short ${code { here(listOf(short) + inputs.drop(1)) }}")
    println("few ${code { here(emptyList()) }}")
    println("dims ${code { here(inputs, intArrayOf(DIMS).map { Int.MAX_VALUE }.toIntArray()) }}")
    println("heap ${fails<IllegalArgumentException> { here(inputs.map { ByteBuffer.allocate(it.limit()) }) }}")
    println("after ${here(inputs) == want}")
}

/** How many of eight threads end well. */
fun together(work: () -> Unit): Int {
    val done = AtomicInteger()
    List(8) { thread { work(); done.incrementAndGet() } }.forEach { it.join() }
    return done.get()
}

/** The code that work fails with, 0 if it does not. */
inline fun code(work: () -> Unit): Int = try { work(); 0 } catch (e: ModelException) { e.code }

inline fun <reified T : Exception> fails(work: () -> Unit): Boolean = try { work(); false } catch (e: Exception) { e is T }

/** By how many KiB the process grows in 10,000 rounds that follow 2,000. */
inline fun grown(round: (Int) -> Unit): Long {
    repeat(2_000) { round(it) }
    val before = resident()
    repeat(10_000) { round(it) }
    return resident() - before
}

fun resident(): Long =
    File("/proc/self/status").readLines().first { it.startsWith("VmRSS") }.filter { it.isDigit() }.toLong()
