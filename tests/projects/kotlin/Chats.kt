// What a desktop JVM checks of the Chat.kt of a project. The test fills in PACKAGE; what the host says is in its arguments.
package PACKAGE.checks

import PACKAGE.Talk
import PACKAGE.model.Chat
import PACKAGE.model.Golden
import PACKAGE.model.ModelException
import PACKAGE.model.Role
import PACKAGE.model.Sampling
import PACKAGE.model.Weights
import java.io.File
import kotlin.concurrent.thread
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking

val weights = Weights.of(android.content.Context())
val greedy = Sampling(temperature = 0f)

/** Golden cases, a folder, then what is said and what the host says to it, in turn. */
fun main(words: Array<String>) {
    weights.check()
    val golden = File(words[0]).readBytes()
    println("golden ${Chat(weights).use { Golden.check(it, golden) }}")
    val folder = File(words[1])
    val said = words.drop(2).chunked(2)
    runBlocking {
        Chat(weights, 2).use { one ->
            val got = said.map { one.begin(); one.ask(it[0], greedy, 16).toList() }
            println("same ${got.indices.all { same(got[it], said[it][1]) }}")
            println("pieces ${got.all { it.size > 2 }}")
            one.begin()
            println("first ${one.ask(said[0][0], greedy, 16).first().isNotEmpty()}")
            println("few ${one.answer(greedy, 2).take(1).toList().size}")
            println("length ${one.length in 1..Chat.CONTEXT}")
            one.begin()
            var came = 0
            val job = launch { one.ask(said[0][0], Sampling(temperature = 2f, topK = 0), 100).collect { came++; delay(5) } }
            while (came < 2) delay(1)
            job.cancel()
            job.join()
            println("cancelled ${came < 60}")
            one.begin()
            println("again ${same(one.ask(said[0][0], greedy, 16).toList(), said[0][1])}")
            one.save(File(folder, "kept"))
            val want = one.ask("more", greedy, 8).toList()
            Chat(weights).use { other ->
                other.restore(File(folder, "kept"))
                println("kept ${other.ask("more", greedy, 8).toList() == want}")
                println("missing ${code { other.restore(File(folder, "none")) }}")
            }
            one.begin()
            println("empty ${code { one.say(Role.USER, " ") }} role ${code { one.say(Role.ASSISTANT, "x") }}")
            println("unsaid ${code { one.answer().toList() }} wrong ${code { one.answer(Sampling(temperature = -1f)).toList() }}")
            println("full ${code { one.ask("word ".repeat(300)).toList() }}")
        }
        val together = List(8) { k -> async { Chat(weights).use { c -> c.ask(said[k % said.size][0], greedy, 16).toList() } } }.awaitAll()
        println("together ${together.indices.all { same(together[it], said[it % said.size][1]) }}")
        val talk = Talk(android.content.Context())
        talk.system = "Be brief.\nAnd \\ clear."
        talk.ask(said[0][0], greedy, 8)
        talk.save(folder)
        val other = Talk(android.content.Context())
        other.restore(folder)
        println("talk ${talk.messages.value.size} ${other.messages.value == talk.messages.value} ${other.messages.value[1].text.isNotEmpty()}")
        other.ask("on", greedy, 8)
        talk.begin()
        println("begun ${talk.messages.value.size} ${other.messages.value.size}")
        talk.close()
        other.close()
    }
    val closed = Chat(weights).apply { close(); close() }
    println("closed ${try { closed.length; false } catch (e: IllegalStateException) { true }}")
    val going = Chat(weights)
    val ended = runBlocking {
        try {
            going.ask(said[0][0], Sampling(temperature = 2f, topK = 0)).collect { going.close() }
            false
        } catch (e: IllegalStateException) {
            true
        }
    }
    println("closed in an answer $ended")
    val threads = List(8) { thread { repeat(50) { Chat(weights, 2).close() } } }
    threads.forEach { it.join() }
    repeat(500) { Chat(weights).close() }
    val before = resident()
    repeat(2_000) { if (it % 100 == 0) Chat(weights).use { c -> runBlocking { c.ask("Hi", greedy, 2).toList() } } else Chat(weights).close() }
    println("grown ${resident() - before}")
}

/** Whether it is what the host says, which does not show a part of a character at the end. */
fun same(pieces: List<String>, want: String): Boolean {
    val got = pieces.joinToString("")
    return got == want || got.startsWith(want) && got.endsWith("\uFFFD")
}

/** The code that work fails with, 0 if it does not. */
suspend fun code(work: suspend () -> Unit): Int = try { work(); 0 } catch (e: ModelException) { e.code }

fun resident(): Long =
    File("/proc/self/status").readLines().first { it.startsWith("VmRSS") }.filter { it.isDigit() }.toLong()
