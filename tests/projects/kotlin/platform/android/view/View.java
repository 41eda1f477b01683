// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.view;

public class View {
    public View(android.content.Context context) {}
}
