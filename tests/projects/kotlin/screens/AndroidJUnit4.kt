package androidx.test.ext.junit.runners

class AndroidJUnit4 : org.junit.runner.Runner()
