# Kernels of devices: where there is nvcc, src/gpu/kernel/*.cu become one fatbin each, for the architectures below and, as
# PTX of the newest, for later ones. No part of a build is linked with anything of CUDA, and nothing here runs it.
#
# HEDDLE_FATBINS is then the list of those files, and the target heddle_kernels makes them; the PTX that they
# were made of lies beside them, for scripts/check-ptx.

set(HEDDLE_BUILD_CUDA AUTO CACHE STRING
    "Compile kernels for CUDA devices: ON, OFF, or AUTO (ON if there is nvcc, and the build is none for sanitizers)")
set(HEDDLE_CUDA_ARCHITECTURES 80 90 CACHE STRING "Devices that kernels are compiled for; from the last on as PTX")

set(HEDDLE_CUDA OFF)
set(HEDDLE_FATBINS "")
if(HEDDLE_BUILD_CUDA STREQUAL "AUTO")
    if(NOT HEDDLE_SANITIZE AND NOT HEDDLE_DEBUG)
        set(HEDDLE_CUDA AUTO)
    endif()
elseif(HEDDLE_BUILD_CUDA)
    set(HEDDLE_CUDA ON)
endif()
if(NOT HEDDLE_CUDA)
    return()
endif()

# No fused multiply-add, since a result has the same bits on every device and on the host; subnormals are kept, and
# divisions are exact, which is the default and said all the same.
set(flags -std=c++17 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true -Xfatbin=-compress-all
    -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include)
foreach(architecture IN LISTS HEDDLE_CUDA_ARCHITECTURES)
    list(APPEND flags -gencode arch=compute_${architecture},code=sm_${architecture})
    set(newest ${architecture})
endforeach()
list(APPEND flags -gencode arch=compute_${newest},code=compute_${newest})

find_program(HEDDLE_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
set(why "there is no nvcc")
if(HEDDLE_NVCC)
    # It may not know one of the architectures, or not like the host's compiler.
    set(trial ${PROJECT_BINARY_DIR}/kernels/trial)
    file(CONFIGURE OUTPUT ${trial}.cu CONTENT "extern \"C\" __global__ void trial(int *i) { *i = 0; }\n")
    if(NOT DEFINED HEDDLE_NVCC_WORKS)
        execute_process(COMMAND ${HEDDLE_NVCC} ${flags} -fatbin -o ${trial}.fatbin ${trial}.cu
                        RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
        if(status EQUAL 0)
            set(HEDDLE_NVCC_WORKS ON CACHE INTERNAL "nvcc compiles for HEDDLE_CUDA_ARCHITECTURES")
        else()
            set(why "${HEDDLE_NVCC} failed: ${output}")
        endif()
    endif()
endif()
if(NOT HEDDLE_NVCC_WORKS)
    if(HEDDLE_CUDA STREQUAL "ON")
        message(FATAL_ERROR "HEDDLE_BUILD_CUDA: ${why}")
    endif()
    message(STATUS "No kernels for CUDA devices: ${why}")
    set(HEDDLE_CUDA OFF)
    return()
endif()
set(HEDDLE_CUDA ON)

# How fatbin is made of source, which depends on the files that follow.
function(heddle_add_fatbin fatbin source)
    cmake_path(GET source FILENAME name)
    add_custom_command(OUTPUT ${fatbin}
        COMMAND ${HEDDLE_NVCC} ${flags} -keep -keep-dir ${PROJECT_BINARY_DIR}/kernels -fatbin -o ${fatbin} ${source}
        DEPENDS ${source} ${ARGN}
        COMMENT "Compiling kernels of ${name}" VERBATIM)
endfunction()

file(GLOB sources CONFIGURE_DEPENDS src/gpu/kernel/*.cu)
file(GLOB headers CONFIGURE_DEPENDS src/gpu/kernel/*.h)
foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    set(fatbin ${PROJECT_BINARY_DIR}/kernels/${name}.fatbin)
    heddle_add_fatbin(${fatbin} ${source} ${headers} src/core/reduce_scalar.h)
    list(APPEND HEDDLE_FATBINS ${fatbin})
endforeach()
add_custom_target(heddle_kernels DEPENDS ${HEDDLE_FATBINS})
