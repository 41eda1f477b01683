// Where an app's files are: the property "apk" names its APK, "files" a folder.
package android.content

import android.content.res.AssetManager
import java.io.File

open class Context {
    val assets = AssetManager(File(System.getProperty("apk")))
    val noBackupFilesDir = File(System.getProperty("files"))
}
