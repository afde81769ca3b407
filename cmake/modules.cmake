# Builds the backends. GEMM libraries are tested by linking a small program, because
# Debian's cblas.h declares functions that its OpenBLAS does not export. They are not
# linked: the first backend that needs one loads it (base/library.h). The cpu
# backend's operations are compiled once per instruction set.
include(CheckCSourceCompiles)
find_library(OPENBLAS_LIBRARY openblas)
find_library(DNNL_LIBRARY dnnl)
find_package(OpenMP COMPONENTS C)

function(pl_check_library library source result)
  set(CMAKE_REQUIRED_LIBRARIES ${library})
  check_c_source_compiles("${source}" ${result})
endfunction()
if(OPENBLAS_LIBRARY)
  pl_check_library(${OPENBLAS_LIBRARY} "#include <cblas.h>
    int main(void) { openblas_set_num_threads(1); float x = 1, y = 0;
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, x, &x, 1, &x, 1, y, &y, 1);
      return openblas_get_config()[0] == openblas_get_corename()[0]; }" PL_OPENBLAS_LINKS)
endif()
if(DNNL_LIBRARY)
  pl_check_library(${DNNL_LIBRARY} "#include <dnnl.h>
    int main(void) { dnnl_matmul_desc_t d;
      return dnnl_version()->major != 2 || dnnl_matmul_desc_init(&d, 0, 0, 0, 0); }"
    PL_DNNL_LINKS)
endif()

# If a library is not in a folder of the system, the program finds it by its RPATH.
foreach(library ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY})
  get_filename_component(folder ${library} DIRECTORY)
  if(folder AND NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND CMAKE_BUILD_RPATH ${folder})
  endif()
endforeach()

set(PL_MODULES_LIBS)
set(PL_MODULES_SKIP "modules/cpu/(table|attention|attention_backward|decode|matvec|bytes|norm|rope|swiglu|classifier|embed|adamw|muon|dw)_cpu")
if(PL_DNNL_LINKS)
  target_compile_definitions(pl_options INTERFACE PL_HAVE_DNNL)
else()
  list(APPEND PL_MODULES_SKIP "modules/cpu/gemm_dnnl")
endif()
if(PL_OPENBLAS_LINKS)
  target_compile_definitions(pl_options INTERFACE PL_HAVE_OPENBLAS)
else()
  list(APPEND PL_MODULES_SKIP "modules/cpu/gemm_blas")
endif()
# GCC 12's check for use after return aligns stack frames to at most 32 bytes (GCC bug
# 110027), so a vector of 64 bytes on the stack would crash the process.
set(PL_AVX512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
if(PL_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL GNU)
  list(APPEND PL_AVX512 --param=asan-use-after-return=0)
endif()
set(PL_CPU_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3>;-ffp-contract=fast")
if(CMAKE_C_FLAGS_DEBUG MATCHES "-Og") # small functions would not become part of their callers
  list(PREPEND PL_CPU_OPTIONS $<$<CONFIG:Debug>:-O1>)
endif()
if(OpenMP_C_FOUND)
  list(APPEND PL_MODULES_LIBS OpenMP::OpenMP_C)
else() # without OpenMP, its pragmas have no effect
  list(APPEND PL_CPU_OPTIONS -Wno-unknown-pragmas -Wno-unused-parameter)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/modules/cpu/gemm_blas.c PROPERTIES
    COMPILE_OPTIONS -Wno-unknown-pragmas)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/modules/cpu/gemm_wide.c PROPERTIES
  COMPILE_OPTIONS "${PL_CPU_OPTIONS}")
# Tests that compare with ref spend much of their time in its products.
if(PL_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/modules/ref/matmul_ref.c PROPERTIES
    COMPILE_OPTIONS -O3)
endif()
# Tests whether the compiler supports fp16 arithmetic.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(CMAKE_REQUIRED_FLAGS -mavx512fp16)
  check_c_source_compiles("#include <immintrin.h>
    int main(int argc, char **argv) { __m512h x = _mm512_setzero_ph(); (void)argv;
      x = _mm512_fmadd_ph(x, x, x); return _mm512_reduce_add_ph(x) > argc; }" PL_COMPILES_F16)
  unset(CMAKE_REQUIRED_FLAGS)
endif()
if(PL_COMPILES_F16)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/modules/cpu/gemm_f16.c PROPERTIES
    COMPILE_OPTIONS "${PL_CPU_OPTIONS};${PL_AVX512};-mavx512fp16")
endif()
pl_folder(modules DEPENDS base LIBS ${PL_MODULES_LIBS} EXCLUDE ${PL_MODULES_SKIP})
if(PL_HAVE_CUDA)
  target_link_libraries(pl_modules PUBLIC pl_cuda)
endif()

# Compiles the cpu operations in files `pattern` for one instruction set `isa`, with the
# compiler flags for this instruction set.
function(pl_cpu_operations isa pattern)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/modules/cpu/${pattern}_cpu.c)
  list(FILTER sources EXCLUDE REGEX "(backend|matmul)_cpu")
  add_library(pl_cpu_${isa} OBJECT ${sources})
  target_compile_definitions(pl_cpu_${isa} PRIVATE CPU_ISA=${isa})
  target_link_libraries(pl_cpu_${isa} PRIVATE pl_options)
  if(OpenMP_C_FOUND)
    target_link_libraries(pl_cpu_${isa} PRIVATE OpenMP::OpenMP_C)
  endif()
  target_compile_options(pl_cpu_${isa} PRIVATE ${ARGN})
  pl_for_library(pl_cpu_${isa})
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${PL_CPU_OPTIONS}")
  target_sources(pl_modules PRIVATE $<TARGET_OBJECTS:pl_cpu_${isa}>)
endfunction()
pl_cpu_operations(portable *)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  pl_cpu_operations(avx2 * -mavx2 -mfma)
  pl_cpu_operations(avx512 * ${PL_AVX512})
  pl_cpu_operations(avx512_vnni bytes ${PL_AVX512} -mavx512vnni)
  pl_cpu_operations(avx512_bf16 * ${PL_AVX512} -mavx512bf16 -mavx512vnni)
  # Sanitizers make these sources slow to compile. If this processor has no AVX-512, no
  # test can run operations for it, so they are compiled without sanitizers.
  if(PL_SANITIZE AND EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo has_avx512 LIMIT_COUNT 1 REGEX "avx512f")
    if(NOT has_avx512)
      set_target_properties(pl_cpu_avx512 pl_cpu_avx512_vnni pl_cpu_avx512_bf16
        PROPERTIES PL_UNSANITIZED ON)
      message(STATUS "AVX-512 operations: not sanitized, this processor has no AVX-512")
    endif()
  endif()
endif()
