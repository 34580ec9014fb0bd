/* pmi2.c: stands for libpmi2.so.0, whose launcher is SLURM's: one folder, PMI2_FOLDER, is what all
 * processes of a job share. PMI2_FAILS names a call that fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(const char *call) {
    const char *that = getenv("PMI2_FAILS");
    return that && strcmp(that, call) == 0 ? 14 : 0;
}

static void path_of(char *out, size_t size, const char *name, int number) {
    snprintf(out, size, "%s/%s%d", getenv("PMI2_FOLDER"), name, number);
}

static void write_file(const char *path, const char *text) {
    char draft[600];
    snprintf(draft, sizeof(draft), "%s.%d", path, (int)getpid());
    FILE *file = fopen(draft, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
        rename(draft, path);
    }
}

int PMI2_Init(int *spawned, int *size, int *rank, int *program);
int PMI2_Finalize(void);
int PMI2_Job_GetId(char *job, int bytes);
int PMI2_KVS_Put(const char *key, const char *value);
int PMI2_KVS_Fence(void);
int PMI2_KVS_Get(const char *job, int source, const char *key, char *value, int bytes, int *length);

int PMI2_Init(int *spawned, int *size, int *rank, int *program) {
    *spawned = *program = 0;
    *size = atoi(getenv("PMI_SIZE"));
    *rank = atoi(getenv("PMI_RANK"));
    return fails("PMI2_Init");
}

int PMI2_Finalize(void) {
    return 0;
}

int PMI2_Job_GetId(char *job, int bytes) {
    snprintf(job, (size_t)bytes, "17.0");
    return fails("PMI2_Job_GetId");
}

int PMI2_KVS_Put(const char *key, const char *value) {
    char path[500];
    path_of(path, sizeof(path), key, 0);
    write_file(path, value);
    return fails("PMI2_KVS_Put");
}

int PMI2_KVS_Fence(void) {
    static int fences;
    char path[500], name[32];
    snprintf(name, sizeof(name), "fence%d.", fences++);
    path_of(path, sizeof(path), name, atoi(getenv("PMI_RANK")));
    write_file(path, "");
    for (int i = 0; i < atoi(getenv("PMI_SIZE"));) {
        path_of(path, sizeof(path), name, i);
        i += access(path, R_OK) == 0;
        usleep(1000);
    }
    return fails("PMI2_KVS_Fence");
}

int PMI2_KVS_Get(const char *job, int source, const char *key, char *value, int bytes,
                 int *length) {
    char path[500];
    path_of(path, sizeof(path), key, 0);
    FILE *file = fopen(path, "r");
    if (!file || strcmp(job, "17.0") != 0 || source != -1) {
        return 14;
    }
    *length = (int)fread(value, 1, (size_t)bytes - 1, file);
    value[*length] = '\0';
    fclose(file);
    return fails("PMI2_KVS_Get");
}
