/* ucc_version.h: the release of the UCC interface that these headers follow.
 *
 * These are the numbers of the interface, which ucc_init() hands to the library; the library behind
 * it has a version of its own.
 */
#ifndef UCC_VERSION_H_
#define UCC_VERSION_H_

#define UCC_VERSION_MAJOR_SHIFT 24
#define UCC_VERSION_MINOR_SHIFT 16

/** One integer per release, ordered like the releases. */
#define UCC_VERSION(_major, _minor)                                                                \
    (((_major) << UCC_VERSION_MAJOR_SHIFT) | ((_minor) << UCC_VERSION_MINOR_SHIFT))

#define UCC_API_MAJOR      1
#define UCC_API_MINOR      8
#define UCC_API_VERSION    UCC_VERSION(1, 8)
#define UCC_VERSION_STRING "1.8.0"
#define UCC_GIT_REVISION   "heddle"

#endif /* UCC_VERSION_H_ */
