// Where an app's files and texts are: the property "apk" names its APK, "files" a folder, "strings" the XML of its texts.
package android.content

import android.content.res.AssetManager
import java.io.File
import javax.xml.parsers.DocumentBuilderFactory

open class Context {
    val applicationContext: Context
        get() = this
    val assets = AssetManager(File(System.getProperty("apk", "")))
    val noBackupFilesDir = File(System.getProperty("files", ""))
    val codeCacheDir = File(System.getProperty("files", ""))

    fun getString(id: Int, vararg words: Any?): String = TEXTS[id].format(*words)

    private companion object {
        /** In the order of the file, as the test numbers them in R. */
        private val TEXTS: List<String> by lazy {
            val found = DocumentBuilderFactory.newInstance().newDocumentBuilder()
            val nodes = found.parse(File(System.getProperty("strings"))).getElementsByTagName("string")
            List(nodes.length) { nodes.item(it).textContent }
        }
    }
}
