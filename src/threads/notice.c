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

void hd_notice_change(hd_notice_t *notice, ucc_status_t status, hd_home_t *home) {
    pthread_mutex_lock(&table_lock);
    notice->status = status;
    notice->home = home;
    pthread_mutex_unlock(&table_lock);
}

void hd_notice_take_down(hd_notice_t *notice) {
    if (!notice->serial) {
        return;
    }
    pthread_mutex_lock(&table_lock);
    *find(notice->serial) = notice->next;
    pthread_mutex_unlock(&table_lock);
    if (notice->home) {
        hd_home_unpin(notice->home);
    }
    *notice = (hd_notice_t){0};
}

ucc_status_t hd_notice_read(uint64_t serial, hd_home_t **home) {
    pthread_mutex_lock(&table_lock);
    const hd_notice_t *notice = *find(serial);
    ucc_status_t status = notice ? notice->status : UCC_ERR_NOT_FOUND;
    if (status == UCC_OK && home) {
        hd_home_pin(notice->home); /* the notice holds a reference as long as it is up */
        *home = notice->home;
    }
    pthread_mutex_unlock(&table_lock);
    return status;
}
