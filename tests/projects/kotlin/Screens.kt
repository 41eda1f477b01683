// Shows the screen of an app by Compose itself, on a JVM of this machine: pictures of a phone's size and a wide one, in light
// and dark, before and after a button is pressed, and what a screen reader finds there. The test fills in PACKAGE.
package PACKAGE.checks

import PACKAGE.MainActivity
import androidx.activity.compose.shown
import androidx.compose.runtime.Composable
import androidx.compose.runtime.CompositionLocalProvider
import androidx.compose.ui.ExperimentalComposeUiApi
import androidx.compose.ui.InternalComposeUiApi
import androidx.compose.ui.LocalSystemTheme
import androidx.compose.ui.SystemTheme
import androidx.compose.ui.graphics.asComposeCanvas
import androidx.compose.ui.platform.PlatformContext
import androidx.compose.ui.scene.CanvasLayersComposeScene
import androidx.compose.ui.scene.ComposeSceneContext
import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.semantics.SemanticsNode
import androidx.compose.ui.semantics.SemanticsOwner
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.semantics.getOrNull
import androidx.compose.ui.text.AnnotatedString
import androidx.compose.ui.unit.Density
import androidx.compose.ui.unit.IntSize
import java.io.File
import org.jetbrains.skia.Image
import org.jetbrains.skia.Surface

const val SCALE = 2
const val TARGET = 48 // what a finger hits, in dp
val BREAKS = Regex("[\\p{Cc}\\u2028\\u2029]+") // what may end a line
val SIZES = listOf(390 to 844, 1280 to 800)

/** The folder of pictures, the text of the button, a pattern of what is said in the end, and what is typed before. */
fun main(words: Array<String>) {
    val (folder, button, pattern) = words
    val ending = Regex(pattern, RegexOption.DOT_MATCHES_ALL)
    for ((width, height) in SIZES) {
        for (theme in listOf(SystemTheme.Light, SystemTheme.Dark)) {
            val name = "$width-${theme.name.lowercase()}"
            Shown(width, height, theme).use { screen ->
                picture(screen.settled { it.isNotEmpty() }, File(folder, "$name-first.png"))
                val nodes = screen.nodes()
                if (name == "390-light") nodes.forEach { println(told(it)) }
                nodes.filter { SemanticsActions.OnClick in it.config }.forEach { check(it.size() >= TARGET) { told(it) } }
                for (typed in words.drop(3)) {
                    val field = screen.nodes().single { SemanticsActions.SetText in it.config }
                    field.config[SemanticsActions.SetText].action!!(AnnotatedString(typed))
                }
                screen.settled { all -> all.any { text(it) == button && enabled(it) } }
                screen.nodes().single { text(it) == button }.config[SemanticsActions.OnClick].action!!()
                picture(screen.settled { all -> all.any { ending.matches(text(it)) } }, File(folder, "$name-last.png"))
                println("$name ${screen.nodes().map { text(it) }.single { ending.matches(it) }}")
            }
        }
    }
    kotlin.system.exitProcess(0) // whatever threads Compose has
}

/** A screen that no window shows. */
@OptIn(ExperimentalComposeUiApi::class, InternalComposeUiApi::class)
class Shown(width: Int, height: Int, theme: SystemTheme) : AutoCloseable, PlatformContext.SemanticsOwnerListener {
    private val owners = mutableSetOf<SemanticsOwner>()
    private val surface = Surface.makeRasterN32Premul(width * SCALE, height * SCALE)
    private val platform = object : PlatformContext by PlatformContext.Empty {
        override val semanticsOwnerListener = this@Shown
    }
    private val context = object : ComposeSceneContext {
        override val platformContext = platform
    }
    private val scene = CanvasLayersComposeScene(
        density = Density(SCALE.toFloat()),
        size = IntSize(width * SCALE, height * SCALE),
        composeSceneContext = context,
    )

    init {
        MainActivity().started()
        scene.setContent { Themed(theme) }
    }

    /** The screen once it is as wanted, and a little later, when nothing moves. */
    fun settled(wanted: (List<SemanticsNode>) -> Boolean): Image {
        val start = System.nanoTime()
        var since = start
        while (true) {
            val now = System.nanoTime()
            scene.render(surface.canvas.asComposeCanvas(), now)
            if (!wanted(nodes())) since = now
            if (now - since > 700_000_000) return surface.makeImageSnapshot()
            check(now - start < 60_000_000_000) { nodes().map { told(it) } }
            Thread.sleep(20)
        }
    }

    fun nodes(): List<SemanticsNode> = owners.flatMap { all(it.rootSemanticsNode) }.filter { told(it) != "" }

    override fun close() = scene.close()

    override fun onSemanticsOwnerAppended(semanticsOwner: SemanticsOwner) {
        owners += semanticsOwner
    }

    override fun onSemanticsOwnerRemoved(semanticsOwner: SemanticsOwner) {
        owners -= semanticsOwner
    }

    override fun onSemanticsChange(semanticsOwner: SemanticsOwner) = Unit

    override fun onLayoutChange(semanticsOwner: SemanticsOwner, semanticsNodeId: Int) = Unit
}

@OptIn(ExperimentalComposeUiApi::class, InternalComposeUiApi::class)
@Composable
fun Themed(theme: SystemTheme) {
    CompositionLocalProvider(LocalSystemTheme provides theme) { checkNotNull(shown)() }
}

fun all(node: SemanticsNode): List<SemanticsNode> = listOf(node) + node.children.flatMap { all(it) }

fun text(node: SemanticsNode): String {
    val own = node.config.getOrNull(SemanticsProperties.ContentDescription) ?: node.config.getOrNull(SemanticsProperties.Text)
    return own.orEmpty().joinToString(" ") { it.toString() }.replace(BREAKS, " ") // each node is a line of what is printed
}

fun enabled(node: SemanticsNode): Boolean = SemanticsProperties.Disabled !in node.config

/** The shorter side of what a finger hits, in dp. */
fun SemanticsNode.size(): Float = touchBoundsInRoot.run { minOf(width, height) } / SCALE

fun told(node: SemanticsNode): String {
    val config = node.config
    val kinds = listOfNotNull(
        "heading".takeIf { SemanticsProperties.Heading in config },
        config.getOrNull(SemanticsProperties.Role)?.toString()?.lowercase(),
        "field".takeIf { SemanticsActions.SetText in config },
        "disabled".takeIf { !enabled(node) },
        "live".takeIf { SemanticsProperties.LiveRegion in config },
    )
    return (kinds + text(node)).joinToString(" ")
}

fun picture(image: Image, file: File) = file.writeBytes(image.encodeToData()!!.bytes)
