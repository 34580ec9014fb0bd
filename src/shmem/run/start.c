/* start.c: the object that oshcc links into each program, which is a shared module, to make it one
 * that may be executed.
 *
 * The section .interp, which the linker makes of HEDDLE_LOADER in executables only, has the kernel
 * load the module as an executable. That begins at heddle_shmem_start, in a process whose libraries
 * are initialised and whose own constructors have not run, with the arguments on the stack;
 * shmemrun takes its place. dlopen() sees nothing of this.
 */
#include "../launcher.h"

#define IN_PROGRAM __attribute__((used, visibility("default")))

/* Without a main, linking fails as for an executable; and shmemrun finds a main that is hidden,
 * too. */
int main(int argc, char **argv);
IN_PROGRAM int (*const heddle_shmem_program)(int, char **) = main;

#ifdef HEDDLE_LOADER
__attribute__((used, section(".interp"))) static const char loader[] = HEDDLE_LOADER;
/* Since it is exported, --gc-sections keeps what it points to. */
IN_PROGRAM const char *const heddle_shmem_loader = loader;
#endif

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl heddle_shmem_start\n"
        ".type heddle_shmem_start, @function\n"
        "heddle_shmem_start:\n"
        "    xorl %ebp, %ebp\n" /* the outermost frame, for debuggers */
        "    movq %rsp, %rdi\n"
        "    andq $-16, %rsp\n"
        "    call heddle_shmem_execute@PLT\n"
        "    hlt\n"
        ".size heddle_shmem_start, . - heddle_shmem_start\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl heddle_shmem_start\n"
        ".type heddle_shmem_start, @function\n"
        "heddle_shmem_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, sp\n"
        "    bl heddle_shmem_execute\n"
        ".size heddle_shmem_start, . - heddle_shmem_start\n");
#else
IN_PROGRAM void heddle_shmem_start(void);
void heddle_shmem_start(void) {
    heddle_shmem_execute(0);
}
#endif
