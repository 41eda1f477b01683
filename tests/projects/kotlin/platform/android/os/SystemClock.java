// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.os;

public final class SystemClock {
    public static native long elapsedRealtime();

    public static native long elapsedRealtimeNanos();
}
