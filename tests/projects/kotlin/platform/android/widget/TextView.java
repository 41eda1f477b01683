// Stands for the class of Android that has this name: only what is compiled against it, and nothing of it runs.
package android.widget;

public class TextView extends android.view.View {
    public TextView(android.content.Context context) {
        super(context);
    }

    public final void setText(CharSequence text) {}

    public CharSequence getText() {
        return "";
    }
}
