/* status.c: what each status is called: of UCC's and of Heddle's own. All layers use these words in
 * their messages, and clients call the function. It keeps nothing, and any thread may call it at
 * any time.
 */
#include <heddle/heddle.h>
#include <heddle/schedule.h>
#include <ucc/api/ucc_status.h>

const char *ucc_status_string(ucc_status_t status) {
    switch ((int)status) {
    case UCC_OK:
        return "ok";
    case UCC_INPROGRESS:
        return "in progress";
    case UCC_OPERATION_INITIALIZED:
        return "initialized, not posted";
    case UCC_ERR_NOT_SUPPORTED:
        return "not supported";
    case UCC_ERR_NOT_IMPLEMENTED:
        return "not implemented";
    case UCC_ERR_INVALID_PARAM:
        return "invalid parameter";
    case UCC_ERR_NO_MEMORY:
        return "out of memory";
    case UCC_ERR_NO_RESOURCE:
        return "resource not available";
    case UCC_ERR_NO_MESSAGE:
        return "general error";
    case UCC_ERR_NOT_FOUND:
        return "not found";
    case UCC_ERR_TIMED_OUT:
        return "timed out";
    case UCC_ERR_IO_ERROR:
        return "input/output error";
    case (int)HEDDLE_ERR_ABORTED:
        return "team aborted";
    case (int)HEDDLE_ERR_CANCELED:
        return "schedule canceled";
    case UCC_ERR_LAST:
        return "last error code";
    default:
        return "unknown status";
    }
}
