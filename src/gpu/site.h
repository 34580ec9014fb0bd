/* site.h: every wait in the source that a device, or the host for a device, makes has a number.
 *
 * An emulated driver is told the number before the wait, and a test can have all waits of one
 * number dropped: somebody must notice, else the wait is not needed, or not tested. So each number
 * stands at one place of the source. Numbers change nothing with a real driver.
 */
#ifndef HD_GPU_SITE_H
#define HD_GPU_SITE_H

typedef enum hd_gpu_site {
    HD_GPU_SITE_NONE, /* a wait that nothing depends on: a look, say */
    /* device/windows.c */
    HD_GPU_SITE_FREE,   /* before a slot is written: what used it last */
    HD_GPU_SITE_FILLED, /* before a slot is read: who has filled it */
    /* device/partials.c */
    HD_GPU_SITE_USED, /* before partials are written: who has combined those that were there */
    HD_GPU_SITE_MADE, /* before they are combined: who has made them */
    /* device/trip.c */
    HD_GPU_SITE_END, /* before the collective is complete: the other devices */
    /* device/order.c */
    HD_GPU_SITE_READY,     /* before devices work: the streams of the members */
    HD_GPU_SITE_DONE,      /* before what comes later in a member's stream: the devices */
    HD_GPU_SITE_LATE,      /* likewise, where only its own thread may use the stream: for a line, */
    HD_GPU_SITE_BY_THREAD, /* and for that in the stream */
    /* by the host, while a gate is closed: for the member's stream, before it publishes */
    HD_GPU_SITE_HELD,
    HD_GPU_SITE_GATE,   /* likewise, of a triggered post whose peers are late: the host opens it */
    HD_GPU_SITE_FAILED, /* after a failure: before buffers are said to be free */
    HD_GPU_SITE_NOT_JOINED, /* likewise, where a stream can't be told to wait */
    /* device/line.c, device/device.c */
    HD_GPU_SITE_DRAINED, /* after a failure: before buffers are said to be free */
    HD_GPU_SITE_LEFT,    /* before lines are given back: what was posted on streams */
    HD_GPU_SITES,
    /* for waits of tests themselves */
    HD_GPU_SITE_TEST = 1000
} hd_gpu_site_t;

#endif
