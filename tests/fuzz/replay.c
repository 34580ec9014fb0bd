/* replay.c: runs a fuzz target on files: those given, or all of the corpus that it was built for.
 * For builds without libFuzzer, so that what was found once stays found.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    static uint8_t buffer[1 << 20];
    size_t size = fread(buffer, 1, sizeof(buffer), file);
    fclose(file);
    uint8_t *data = malloc(size > 0 ? size : 1); /* of its size, for sanitizers */
    if (!data) {
        return 1;
    }
    for (size_t i = 0; i < size; i++) {
        data[i] = buffer[i];
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv) {
    int failed = 0, files = 0;
    for (int i = 1; i < argc; i++, files++) {
        failed += run(argv[i]);
    }
    DIR *folder = argc > 1 ? NULL : opendir(HEDDLE_CORPUS);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", HEDDLE_CORPUS, entry->d_name);
            failed += run(path);
            files++;
        }
    }
    if (folder) {
        closedir(folder);
    }
    printf("%d inputs\n", files);
    return failed > 0 || files == 0;
}
