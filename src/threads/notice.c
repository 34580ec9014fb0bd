/* notice.c: the table of notices (meet.h), under one mutex that is held for a few lines of code. */
#include "core/fork.h"
#include "threads/meet.h"

enum { N_BUCKETS = 256 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static hd_notice_t *table[N_BUCKETS];

uint64_t hd_serial(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) +
           1; /* only uniqueness counts */
}

/* Under the lock: where the notice is linked, or where it would be. */
static hd_notice_t **find(uint64_t serial) {
    hd_notice_t **at = &table[serial % N_BUCKETS]; /* serial numbers come one after the other */
    while (*at && (*at)->serial != serial) {
        at = &(*at)->next;
    }
    return at;
}

void hd_notice_put_up(hd_notice_t *notice) {
    *notice = (hd_notice_t){.serial = hd_serial(), .status = UCC_INPROGRESS};
    hd_fork_guard(&table_lock);
    pthread_mutex_lock(&table_lock);
    *find(notice->serial) = notice;
    pthread_mutex_unlock(&table_lock);
}

void hd_notice_change(hd_notice_t *notice, ucc_status_t status) {
    pthread_mutex_lock(&table_lock);
    notice->status = status;
    pthread_mutex_unlock(&table_lock);
}

void hd_notice_take_down(hd_notice_t *notice) {
    if (!notice->serial) {
        return;
    }
    pthread_mutex_lock(&table_lock);
    *find(notice->serial) = notice->next;
    pthread_mutex_unlock(&table_lock);
    *notice = (hd_notice_t){0};
}

ucc_status_t hd_notice_read(uint64_t serial) {
    pthread_mutex_lock(&table_lock);
    const hd_notice_t *notice = *find(serial);
    ucc_status_t status = notice ? notice->status : UCC_ERR_NOT_FOUND;
    pthread_mutex_unlock(&table_lock);
    return status;
}
