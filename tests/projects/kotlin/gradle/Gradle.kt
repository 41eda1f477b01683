// Stands for what Gradle's Kotlin DSL gives to build scripts, typed as its documentation has it. What a script sets is
// recorded. Gradle itself, which compiles scripts against its own, is not to be had where the tests run.
package gradle

import java.io.File

@DslMarker
annotation class Dsl

@Target(AnnotationTarget.CLASS)
annotation class Assignable

/** What the scripts of a project have said, in order. */
val said = mutableListOf<String>()

fun say(text: String) {
    said += text
}

@Assignable
class Property<T : Any>(private val name: String) {
    fun set(value: T) = say("$name = $value")
}

fun <T : Any> Property<T>.assign(value: T) = set(value)

class ProviderOfPlugin(val id: String, val version: String)

class Library(val notation: String)

@Dsl
class Plugins {
    fun alias(plugin: ProviderOfPlugin): Plugin = Plugin("plugin ${plugin.id} ${plugin.version}").also { say(it.told) }
}

class Plugin(val told: String)

infix fun Plugin.apply(now: Boolean): Plugin = also { say("${it.told} $now") }

@Dsl
class Repositories {
    fun google() = say("google")

    fun mavenCentral() = say("mavenCentral")

    fun gradlePluginPortal() = say("gradlePluginPortal")
}

enum class RepositoriesMode { FAIL_ON_PROJECT_REPOS }

@Dsl
class PluginManagement {
    fun repositories(block: Repositories.() -> Unit) = Repositories().block()
}

@Dsl
class DependencyResolution {
    val repositoriesMode = Property<RepositoriesMode>("repositoriesMode")

    fun repositories(block: Repositories.() -> Unit) = Repositories().block()
}

class RootProject {
    var name: String = ""
        set(value) = say("rootProject $value")
}

class Settings {
    val rootProject = RootProject()

    fun pluginManagement(block: PluginManagement.() -> Unit) = PluginManagement().block()

    fun dependencyResolutionManagement(block: DependencyResolution.() -> Unit) = DependencyResolution().block()

    fun include(vararg paths: String) = say("include ${paths.joinToString()}")
}

class Dependency(val told: String)

@Dsl
class Dependencies {
    private fun add(to: String, told: String) = say("$to $told")

    fun project(path: String) = Dependency("project $path")

    fun platform(library: Library) = Dependency("platform ${library.notation}")

    fun implementation(library: Library) = add("implementation", library.notation)

    fun implementation(dependency: Dependency) = add("implementation", dependency.told)

    fun api(library: Library) = add("api", library.notation)

    fun androidTestImplementation(library: Library) = add("androidTestImplementation", library.notation)
}

/** A script of a project, in a folder of it. */
open class Project(private val folder: File) {
    val libs = Catalogue()

    fun plugins(block: Plugins.() -> Unit) = Plugins().block()

    fun dependencies(block: Dependencies.() -> Unit) = Dependencies().block()

    fun file(path: String): File = folder.resolve(path).also { check(it.exists()) { "$it is not there" } }

    fun getDefaultProguardFile(name: String) = File(name)
}
