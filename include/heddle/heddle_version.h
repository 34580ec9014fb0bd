/* heddle_version.h: which release of Heddle these headers belong to; of preprocessor lines only. */
#ifndef HEDDLE_VERSION_H_
#define HEDDLE_VERSION_H_

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0

/** One number that grows with every release, for comparisons. */
#define HEDDLE_VERSION_NUMBER(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define HEDDLE_VERSION                                                                             \
    HEDDLE_VERSION_NUMBER(HEDDLE_VERSION_MAJOR, HEDDLE_VERSION_MINOR, HEDDLE_VERSION_PATCH)

#define HEDDLE_VERSION_TEXT_OF(text) #text
#define HEDDLE_VERSION_TEXT(text)    HEDDLE_VERSION_TEXT_OF(text)
#define HEDDLE_VERSION_STRING                                                                      \
    HEDDLE_VERSION_TEXT(HEDDLE_VERSION_MAJOR)                                                      \
    "." HEDDLE_VERSION_TEXT(HEDDLE_VERSION_MINOR) "." HEDDLE_VERSION_TEXT(HEDDLE_VERSION_PATCH)

#endif
