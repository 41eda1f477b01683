/* Of the Java Native Interface, the names that apps use, to compile and link them. Not the order of its table: nothing
   made with this file runs (test_kotlin.py takes a JDK's own). */
#include <stdint.h>
typedef int8_t jbyte;
typedef int32_t jint;
typedef int64_t jlong;
typedef jint jsize;
typedef void *jobject;
typedef jobject jclass, jstring, jarray, jobjectArray, jintArray, jlongArray, jbyteArray;
typedef struct {
    const char *name, *signature;
    void *fnPtr;
} JNINativeMethod;
typedef const struct Table *JNIEnv;
typedef const struct Machine *JavaVM;
struct Table {
    void (*SetLongArrayRegion)(JNIEnv *, jlongArray, jsize, jsize, const jlong *);
    void (*SetIntArrayRegion)(JNIEnv *, jintArray, jsize, jsize, const jint *);
    void (*GetIntArrayRegion)(JNIEnv *, jintArray, jsize, jsize, jint *);
    void (*SetByteArrayRegion)(JNIEnv *, jbyteArray, jsize, jsize, const jbyte *);
    void (*GetByteArrayRegion)(JNIEnv *, jbyteArray, jsize, jsize, jbyte *);
    jbyteArray (*NewByteArray)(JNIEnv *, jsize);
    jsize (*GetArrayLength)(JNIEnv *, jarray);
    jobject (*GetObjectArrayElement)(JNIEnv *, jobjectArray, jsize);
    jstring (*NewStringUTF)(JNIEnv *, const char *);
    jlong (*GetDirectBufferCapacity)(JNIEnv *, jobject);
    void *(*GetDirectBufferAddress)(JNIEnv *, jobject);
    void (*DeleteLocalRef)(JNIEnv *, jobject);
    jclass (*FindClass)(JNIEnv *, const char *);
    jint (*RegisterNatives)(JNIEnv *, jclass, const JNINativeMethod *, jint);
};
struct Machine {
    jint (*GetEnv)(JavaVM *, void **, jint);
};
#define JNIEXPORT __attribute__((visibility("default")))
#define JNICALL
#define JNI_OK 0
#define JNI_ERR (-1)
#define JNI_VERSION_1_6 0x00010006
