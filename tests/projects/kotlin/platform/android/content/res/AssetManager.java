// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.content.res;

public final class AssetManager {
    public native AssetFileDescriptor openFd(String name) throws java.io.IOException;
}
