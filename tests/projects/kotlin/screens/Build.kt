// Android's own, for the screens of an app: an old version, which has no colours of its own.
package android.os

class Bundle

object Build {
    object VERSION {
        @JvmField val SDK_INT: Int = Integer.getInteger("sdk", 26)
    }

    object VERSION_CODES {
        const val S: Int = 31
    }
}
