/* ucc_status.h: what every call of the UCC interface returns.
 *
 * A status is zero for success, positive while something is still under way, negative for an error.
 * Included by ucc_def.h; usable on its own from C and C++.
 */
#ifndef UCC_STATUS_H_
#define UCC_STATUS_H_

#ifdef __cplusplus
#define BEGIN_C_DECLS extern "C" {
#define END_C_DECLS   }
#else
#define BEGIN_C_DECLS
#define END_C_DECLS
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

BEGIN_C_DECLS

/** Result of a call, and state of a request. Test for errors with `status < 0`: libraries may
 *  return negative values that have no name here. */
typedef enum {
    UCC_OK = 0,                    /**< done, successfully */
    UCC_INPROGRESS = 1,            /**< started; keep progressing and testing */
    UCC_OPERATION_INITIALIZED = 2, /**< a request that was never posted */

    UCC_ERR_NOT_SUPPORTED = -1,   /**< valid, but this library or build cannot do it */
    UCC_ERR_NOT_IMPLEMENTED = -2, /**< part of the interface that has no implementation yet */
    UCC_ERR_INVALID_PARAM = -3,   /**< an argument, or the state of an object, forbids the call */
    UCC_ERR_NO_MEMORY = -4,       /**< an allocation failed; nothing was changed */
    UCC_ERR_NO_RESOURCE = -5,     /**< a limited resource other than memory is used up */
    UCC_ERR_NO_MESSAGE = -6,      /**< failure without a more specific code */
    UCC_ERR_NOT_FOUND = -7,       /**< no such name, member or event */
    UCC_ERR_TIMED_OUT = -8,       /**< the time given with the operation has passed */
    UCC_ERR_IO_ERROR = -9,        /**< the operating system reported an input/output error */
    UCC_ERR_LAST = -100           /**< below every code of the interface */
} ucc_status_t;

/** A one-line English text for status. Never NULL, also for unknown values; static storage, do not
 *  free. */
const char *ucc_status_string(ucc_status_t status);

END_C_DECLS

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* UCC_STATUS_H_ */
