/* What a generated model shows to the runtime agent: tensors, dims and functions in one constant record. */
#ifndef SDK_RT_H
#define SDK_RT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SDK_RT_ABI 1 /* version of sdk_rt_model_t; the agent refuses a record with another one */

/* Statuses. 0 is success; generated models use the same numbers for their own <MODEL>_E_* names. */
enum {
    SDK_RT_OK = 0,
    SDK_RT_E_ARG = -1,     /* a null or misaligned argument */
    SDK_RT_E_DIM = -2,     /* a dimension outside its bounds */
    SDK_RT_E_ARENA = -3,   /* the arena is too small or misaligned */
    SDK_RT_E_STATE = -4,   /* not initialised, or the state does not belong to this model */
    SDK_RT_E_SELFTEST = -5 /* a golden case gave another result */
};

/* Element types of tensors. */
typedef enum {
    SDK_RT_I8 = 1,
    SDK_RT_U8 = 2,
    SDK_RT_I16 = 3,
    SDK_RT_U16 = 4,
    SDK_RT_I32 = 5,
    SDK_RT_U32 = 6,
    SDK_RT_I64 = 7,
    SDK_RT_F16 = 8,
    SDK_RT_F32 = 9,
    SDK_RT_F64 = 10,
    SDK_RT_BOOL = 11,
    SDK_RT_U64 = 12
} sdk_rt_dtype_t;

/* One input or output. */
typedef struct {
    const char *name;
    uint8_t dtype;        /* sdk_rt_dtype_t */
    uint8_t ndim;
    const int32_t *shape; /* ndim extents, at the upper bound of the dims */
    uint32_t bytes;       /* size of the storage, at the upper bound of the dims */
    float scale;          /* 0 when not quantised */
    int32_t zero_point;
} sdk_rt_tensor_t;

/* One dimension bound at run time; bounds are inclusive. */
typedef struct {
    const char *name;
    int32_t lo;
    int32_t hi;
} sdk_rt_dim_t;

/* Runs task(arg, index, worker) for every index in 0..count and returns when all are done. Calls that run at the same
   time have different workers, in 0..threads. */
typedef void (*sdk_rt_parallel_t)(void *user, int32_t count, void (*task)(void *arg, int32_t index, int32_t worker), void *arg);

/* One model with its static storage. All functions return a status. */
typedef struct {
    uint32_t abi;     /* SDK_RT_ABI */
    const char *name; /* C identifier */
    const char *hash; /* hex */
    uint16_t input_count, output_count, dim_count;
    const sdk_rt_tensor_t *tensors; /* inputs, then outputs */
    const sdk_rt_dim_t *dims;
    uint32_t arena_bytes, state_bytes, context_bytes;
    int (*init)(void);
    int (*reset)(void);
    int (*run)(const int32_t *dims); /* dim_count values; NULL when dim_count is 0 */
    void *(*data)(uint16_t index);   /* storage of a tensor; a run may overwrite inputs */
    int (*selftest)(void);           /* NULL when the model carries no golden cases */
    int32_t threads;                 /* that may share a run; 1 where set_parallel is NULL */
    int (*set_parallel)(sdk_rt_parallel_t parallel, void *user, int32_t threads); /* after init; NULL when one thread does all */
} sdk_rt_model_t;

/* The models linked into this agent, and the hash of the image they are part of. */
extern const sdk_rt_model_t *const sdk_rt_models[];
extern const uint16_t sdk_rt_model_count;
extern const char sdk_rt_build_id[];

#ifdef __cplusplus
}
#endif

#endif /* SDK_RT_H */
