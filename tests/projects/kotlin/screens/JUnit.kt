// JUnit 4's annotations and assertions, as its documentation declares what the golden test names.
package org.junit

@Target(AnnotationTarget.FUNCTION)
annotation class Test

object Assert {
    @JvmStatic
    fun assertTrue(condition: Boolean) {
        if (!condition) throw AssertionError()
    }
}
