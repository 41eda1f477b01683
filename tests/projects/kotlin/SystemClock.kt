// Android's clock, for the Demo.kt of an app.
package android.os

object SystemClock {
    fun elapsedRealtime(): Long = elapsedRealtimeNanos() / 1_000_000

    fun elapsedRealtimeNanos(): Long = System.nanoTime()
}
