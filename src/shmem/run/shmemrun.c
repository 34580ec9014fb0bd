/* shmemrun.c: the program of that name; what it does is the library's (launch.c). */
#include "../launcher.h"

int main(int argc, char **argv) {
    return heddle_shmem_launch(argc, argv);
}
