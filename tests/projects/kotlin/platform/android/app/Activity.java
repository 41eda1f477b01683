// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.app;

public class Activity extends android.content.Context {
    protected void onCreate(android.os.Bundle saved) {}

    public void setContentView(android.view.View view) {}

    public native android.content.res.AssetManager getAssets();

    public native java.io.File getNoBackupFilesDir();
}
