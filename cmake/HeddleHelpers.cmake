# Functions shared by the library, the tests and the tools.

# How our C is compiled. No contraction to fused multiply-add: a reduction gives the same bits whichever
# kernel, compiler or machine computed it. _GNU_SOURCE is empty so that files may define it as well.
function(heddle_compile_options target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion
                           $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>)
    target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)
endfunction()

# Reduction kernels are loops written to be vectorised, which gcc does at -O3 only; a sanitizer's checks are in its way, and
# take minutes to compile then. Properties of source files are seen by the targets of one folder: called in each that
# compiles the library.
function(heddle_optimize_kernels)
    file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/core/reduce*.c)
    if(NOT HEDDLE_SANITIZE)
        set_source_files_properties(${kernels} PROPERTIES
            COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3>")
    endif()
    # cleanups when a user's callback throws or ends its thread
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/threads/callback.c
        ${PROJECT_SOURCE_DIR}/src/request/engine.c PROPERTIES COMPILE_OPTIONS -fexceptions)
endfunction()

# The one file that knows UCX, if its headers are there. Seen by the targets of one folder, likewise.
function(heddle_use_ucx)
    if(HEDDLE_UCX)
        set_source_files_properties(${PROJECT_SOURCE_DIR}/src/net/ucx.c PROPERTIES
            COMPILE_DEFINITIONS HD_HAVE_UCX INCLUDE_DIRECTORIES "${HEDDLE_UCX_INCLUDE}")
    endif()
endfunction()

# Registers a program as a check: with ctest, and in suites.txt as "suite name program". The suites are
# criterion (counts its own tests), plain, stress, model, example: one check per program. checks_SUITE is a
# target that builds all of a suite. Further arguments are the program's; not for suite criterion.
function(heddle_add_check suite name target)
    if(NOT TARGET checks_${suite})
        add_custom_target(checks_${suite})
    endif()
    add_dependencies(checks_${suite} ${target})
    if(HEDDLE_BUILD_TESTS)
        add_test(NAME ${name} COMMAND ${target} ${ARGN})
        set_tests_properties(${name} PROPERTIES LABELS ${suite} TIMEOUT 300 SKIP_RETURN_CODE 77)
    endif()
    list(JOIN ARGN " " arguments)
    if(arguments)
        string(PREPEND arguments " ")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY HEDDLE_CHECKS
                 "${suite} ${name} $<TARGET_FILE:${target}>${arguments}\n")
endfunction()

# Installs a program, and a manual page made of its --help.
function(heddle_install_program target component)
    if(NOT HEDDLE_INSTALL)
        return()
    endif()
    install(TARGETS ${target} RUNTIME COMPONENT ${component})
    set(page ${PROJECT_BINARY_DIR}/man/${target}.1)
    add_custom_command(OUTPUT ${page}.gz
        COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DVERSION=${PROJECT_VERSION} -DOUTPUT=${page}
                -P ${PROJECT_SOURCE_DIR}/cmake/HeddleMan.cmake
        DEPENDS ${target} ${PROJECT_SOURCE_DIR}/cmake/HeddleMan.cmake VERBATIM)
    add_custom_target(man_${target} ALL DEPENDS ${page}.gz)
    install(FILES ${page}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
endfunction()

# A shmemrun for tests, with libheddle_shmem and a library of Heddle's in it: so both are compiled for a sanitizer, and no library
# of a sanitizer's comes before them.
function(heddle_add_shmemrun target library)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/shmem/*.c)
    add_executable(${target} ${sources} ${PROJECT_SOURCE_DIR}/src/shmem/run/shmemrun.c)
    heddle_compile_options(${target})
    target_link_libraries(${target} PRIVATE ${library} Threads::Threads m ${CMAKE_DL_LIBS})
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden ENABLE_EXPORTS ON)
endfunction()

# A program for such a shmemrun, whose names it finds there.
function(heddle_add_shmem_module target source)
    add_library(${target} MODULE ${source})
    target_compile_options(${target} PRIVATE -Wall -Wextra)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include/heddle/shmem)
    target_link_options(${target} PRIVATE LINKER:-Bsymbolic)
    set_target_properties(${target} PROPERTIES PREFIX "")
endfunction()

# The checks that run a program with 1, 2, 4 and 16 PEs: in one process, in two, and with one for each PE.
function(heddle_add_shmem_check suite name target launcher)
    heddle_add_check(${suite} ${name} ${launcher} -n 1,2,4,16 $<TARGET_FILE:${target}>)
    if(NOT HEDDLE_SANITIZE)
        heddle_add_check(${suite} ${name}_in_two ${launcher} -n 2,4,16 -p 2 $<TARGET_FILE:${target}>)
        heddle_add_check(${suite} ${name}_apart ${launcher} -n 4,16 -p 16 $<TARGET_FILE:${target}>)
    endif()
    add_dependencies(checks_${suite} ${target})
endfunction()

function(heddle_write_checks)
    get_property(checks GLOBAL PROPERTY HEDDLE_CHECKS)
    file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/suites.txt CONTENT "${checks}")
endfunction()
