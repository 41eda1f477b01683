// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.content.res;

public class AssetFileDescriptor implements java.io.Closeable {
    public native java.io.FileDescriptor getFileDescriptor();

    public native long getStartOffset();

    public native long getLength();

    public native java.io.FileInputStream createInputStream() throws java.io.IOException;

    public native void close() throws java.io.IOException;
}
