// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.content;

public abstract class Context {
    public abstract android.content.res.AssetManager getAssets();

    public abstract java.io.File getNoBackupFilesDir();
}
