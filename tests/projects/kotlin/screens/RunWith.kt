package org.junit.runner

import kotlin.reflect.KClass

open class Runner

@Target(AnnotationTarget.CLASS)
annotation class RunWith(val value: KClass<out Runner>)
