// Stands for the DSL of Android's Gradle plugins, typed as its documentation has it. What a script sets is recorded.
package gradle

import java.io.File
import kotlin.properties.ReadWriteProperty
import kotlin.reflect.KProperty

/** A setting that can be set. */
private class Told<T>(private var value: T) : ReadWriteProperty<Any, T> {
    override fun getValue(thisRef: Any, property: KProperty<*>): T = value

    override fun setValue(thisRef: Any, property: KProperty<*>, value: T) {
        this.value = value
        say("${property.name} = $value")
    }
}

private fun <T> told(value: T) = Told(value)

/** A collection whose additions are recorded. */
class Names(private val name: String) : AbstractMutableSet<String>() {
    private val all = mutableSetOf<String>()
    override val size
        get() = all.size

    override fun iterator() = all.iterator()

    override fun add(element: String): Boolean = all.add(element).also { say("$name += $element") }
}

enum class JavaVersion { VERSION_17 }

@Dsl
class CompileOptions {
    var sourceCompatibility: JavaVersion? by told(null)
    var targetCompatibility: JavaVersion? by told(null)
}

@Dsl
class AndroidResources {
    val noCompress: MutableSet<String> = Names("noCompress")
}

class SourceDirectories(private val name: String) {
    fun srcDir(path: Any) = say("$name $path")
}

class SourceSet(name: String) {
    val assets = SourceDirectories("assets of $name")
}

class SourceSets {
    operator fun get(name: String): SourceSet = SourceSet(name)
}

@Dsl
class CmakeFlags {
    val arguments: MutableSet<String> = Names("arguments")
}

@Dsl
class NativeFlags {
    fun cmake(block: CmakeFlags.() -> Unit) = CmakeFlags().block()
}

@Dsl
class Cmake {
    var path: File? by told(null)
    var version: String? by told(null)
}

@Dsl
class NativeBuild {
    fun cmake(block: Cmake.() -> Unit) = Cmake().block()
}

@Dsl
class Ndk {
    val abiFilters: MutableSet<String> = Names("abiFilters")
}

@Dsl
class BuildType {
    var isMinifyEnabled: Boolean by told(false)
    var isShrinkResources: Boolean by told(false)

    fun proguardFiles(vararg files: Any) = say("proguardFiles ${files.joinToString()}")
}

@Dsl
class BuildTypes {
    fun release(block: BuildType.() -> Unit) = BuildType().block()
}

@Dsl
open class DefaultConfig {
    var minSdk: Int? by told(null)
}

@Dsl
class ApplicationConfig : DefaultConfig() {
    var applicationId: String? by told(null)
    var targetSdk: Int? by told(null)
    var versionCode: Int? by told(null)
    var versionName: String? by told(null)
}

@Dsl
class LibraryConfig : DefaultConfig() {
    var testInstrumentationRunner: String? by told(null)

    fun consumerProguardFiles(vararg files: Any) = say("consumerProguardFiles ${files.joinToString()}")

    fun externalNativeBuild(block: NativeFlags.() -> Unit) = NativeFlags().block()

    fun ndk(block: Ndk.() -> Unit) = Ndk().block()
}

@Dsl
class ApplicationFeatures {
    var compose: Boolean? by told(null)
}

@Dsl
class LibraryFeatures {
    var prefabPublishing: Boolean? by told(null)
}

@Dsl
class PrefabModule {
    var headers: String? by told(null)
}

@Dsl
class Prefab {
    fun create(name: String, block: PrefabModule.() -> Unit) = say("prefab $name").also { PrefabModule().block() }
}

@Dsl
open class Android {
    var namespace: String? by told(null)
    var compileSdk: Int? by told(null)
    val sourceSets = SourceSets()

    fun compileOptions(block: CompileOptions.() -> Unit) = CompileOptions().block()

    fun androidResources(block: AndroidResources.() -> Unit) = AndroidResources().block()
}

@Dsl
class ApplicationAndroid : Android() {
    val assetPacks: MutableSet<String> = Names("assetPacks")

    fun defaultConfig(block: ApplicationConfig.() -> Unit) = ApplicationConfig().block()

    fun buildTypes(block: BuildTypes.() -> Unit) = BuildTypes().block()

    fun buildFeatures(block: ApplicationFeatures.() -> Unit) = ApplicationFeatures().block()
}

@Dsl
class LibraryAndroid : Android() {
    var ndkVersion: String by told("")

    fun defaultConfig(block: LibraryConfig.() -> Unit) = LibraryConfig().block()

    fun externalNativeBuild(block: NativeBuild.() -> Unit) = NativeBuild().block()

    fun buildFeatures(block: LibraryFeatures.() -> Unit) = LibraryFeatures().block()

    fun prefab(block: Prefab.() -> Unit) = Prefab().block()
}

@Dsl
class DynamicDelivery {
    val deliveryType = Property<String>("deliveryType")
}

@Dsl
class AssetPack {
    val packName = Property<String>("packName")

    fun dynamicDelivery(block: DynamicDelivery.() -> Unit) = DynamicDelivery().block()
}

class Application(folder: File) : Project(folder) {
    fun android(block: ApplicationAndroid.() -> Unit) = ApplicationAndroid().block()
}

class AndroidLibrary(folder: File) : Project(folder) {
    fun android(block: LibraryAndroid.() -> Unit) = LibraryAndroid().block()
}

class Pack(folder: File) : Project(folder) {
    fun assetPack(block: AssetPack.() -> Unit) = AssetPack().block()
}
