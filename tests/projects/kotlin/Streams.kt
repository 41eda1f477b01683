// What a desktop JVM checks of a model with a state, whose `sum` is that of all `x` so far. The test fills in PACKAGE.
package PACKAGE.checks

import PACKAGE.model.Model
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.asFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.last
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.yield

fun ones(): Model.Inputs = Model.Inputs(Model.IN_X.encode(FloatArray(Model.IN_X.largest[0]) { 1f }))

fun sum(outputs: Model.Outputs): Float = outputs.sum.toFloatArray().toSet().single()

fun Model.next(): Float = sum(runHere(ones()))

fun Model.sums(inputs: Flow<Model.Inputs>): Flow<Float> = stream(inputs).map { sum(it) }

/** So many inputs; others may go on between them. */
fun some(count: Int): Flow<Model.Inputs> = (0 until count).asFlow().onEach { yield() }.map { ones() }

fun main(): Unit = Model().use { one ->
    runBlocking {
        repeat(3) { one.next() }
        val sums = one.sums(some(4))
        println("stream ${sums.toList()}")
        println("again ${sums.toList()}")
        println("empty ${one.sums(some(0)).toList()}")
        println("own ${one.next()}")
        println("together ${List(8) { k -> async(Dispatchers.Default) { one.sums(some(50 + k)).last() } }.awaitAll()}")
        println("first ${one.sums(some(4)).first()}")

        val seen = mutableListOf<Float>()
        val short = Model.Inputs(Model.IN_X.allocate(1))
        println("short ${code { one.sums(listOf(ones(), short, ones()).asFlow()).collect { seen += it } }} $seen")
        val theirs = flow { emit(ones()); throw ArithmeticException() }
        println("theirs ${fails<ArithmeticException> { one.sums(theirs).last() }}")
        println("mine ${fails<ArithmeticException> { one.sums(some(4)).collect { throw ArithmeticException() } }}")

        val begun = Channel<Float>()
        val endless = launch { one.sums(flow { while (true) emit(ones()) }).collect { begun.send(it) } }
        println("begun ${List(3) { begun.receive() }}")
        endless.cancelAndJoin()
        println("cancelled ${endless.isCancelled}")

        println("still ${one.next()}")
        println("shared ${together { repeat(20) { one.next() } }} ${one.next()}")
        one.reset()
        println("reset ${one.next()}")
        println("grown ${grown { one.sums(some(4)).first() }}")
    }
}
