# Steps and codecs on a GPU (outer/accel.h): the kernels where nvcc is found, else what
# says that there are none.
file(GLOB PL_ACCEL_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/outer/cuda/*.cu)
if(PL_HAVE_CUDA)
  pl_nvcc(PL_ACCEL_OBJECTS ${PL_ACCEL_SOURCES})
  add_library(pl_accel STATIC ${PL_ACCEL_OBJECTS})
  set_target_properties(pl_accel PROPERTIES LINKER_LANGUAGE CXX)
else()
  add_library(pl_accel STATIC ${CMAKE_SOURCE_DIR}/outer/accel_absent.c)
endif()
target_link_libraries(pl_accel PUBLIC pl_outer)
