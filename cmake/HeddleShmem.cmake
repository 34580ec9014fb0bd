# libheddle_shmem, shmemrun, the wrapper compilers oshcc and oshc++ (which find the rest when they are installed), and what
# programs are linked with: heddle::shmem.

file(GLOB sources CONFIGURE_DEPENDS src/shmem/*.c)
add_library(heddle_shmem SHARED ${sources})
heddle_compile_options(heddle_shmem)
target_include_directories(heddle_shmem PRIVATE include src)
# Which PE a thread is, every call asks. The library comes with shmemrun, not later.
target_compile_options(heddle_shmem PRIVATE -ftls-model=initial-exec -fno-semantic-interposition)
# Its pthread_create(), thrd_create() and exit() stand for the C library's (src/shmem/launch.c), which comes last among what
# shmemrun needs.
target_link_libraries(heddle_shmem PRIVATE heddle::heddle Threads::Threads m ${CMAKE_DL_LIBS})
target_link_options(heddle_shmem PRIVATE LINKER:--as-needed LINKER:-Bsymbolic-functions
                    LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/heddle_shmem.map)
if(NOT HEDDLE_SANITIZE)
    target_link_options(heddle_shmem PRIVATE LINKER:--no-undefined)
endif()
set_target_properties(heddle_shmem PROPERTIES
    EXPORT_NAME shmem_library
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}
    C_VISIBILITY_PRESET hidden
    INSTALL_RPATH "$ORIGIN"
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/heddle_shmem.map)

add_executable(shmemrun src/shmem/run/shmemrun.c)
heddle_compile_options(shmemrun)
target_link_libraries(shmemrun PRIVATE heddle_shmem)
set_target_properties(shmemrun PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
heddle_install_program(shmemrun shmemrun)

# The loader that executables of this compiler name.
execute_process(COMMAND ${CMAKE_C_COMPILER} "-###" -x c /dev/null OUTPUT_QUIET ERROR_VARIABLE commands)
if(commands MATCHES "-dynamic-linker\"? \"?([^ \"]+)")
    set(loader ${CMAKE_MATCH_1})
endif()
add_library(heddle_shmem_start OBJECT src/shmem/run/start.c)
heddle_compile_options(heddle_shmem_start)
target_compile_definitions(heddle_shmem_start PRIVATE $<$<BOOL:${loader}>:HEDDLE_LOADER="${loader}">)
set_target_properties(heddle_shmem_start PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_dependencies(heddle_shmem heddle_shmem_start) # so that it is there for whatever is linked with the library

# An executable that is linked with heddle::shmem is a program for shmemrun, as oshcc makes it.
add_library(heddle_shmem_program INTERFACE)
add_library(heddle::shmem ALIAS heddle_shmem_program)
set_target_properties(heddle_shmem_program PROPERTIES EXPORT_NAME shmem)
target_link_libraries(heddle_shmem_program INTERFACE heddle_shmem)
target_include_directories(heddle_shmem_program INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include/heddle/shmem>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/heddle/shmem>)
target_compile_options(heddle_shmem_program INTERFACE -fPIC $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
set(start $<BUILD_INTERFACE:$<TARGET_OBJECTS:heddle_shmem_start>>)
string(APPEND start $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}/heddle/shmem_start.o>)
target_link_options(heddle_shmem_program INTERFACE LINKER:-Bsymbolic
    $<${is_program}:-shared> $<${is_program}:LINKER:-e,heddle_shmem_start> $<${is_program}:${start}>)
if(NOT HEDDLE_SANITIZE)
    target_link_options(heddle_shmem_program INTERFACE $<${is_program}:LINKER:-z,defs>)
endif()
