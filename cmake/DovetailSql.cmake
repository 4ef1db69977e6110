# dovetail_embed_sql(target engine): generates C++ from <engine>/sql/*.sql and <engine>/migrations/.
#   <engine>/sql.hpp, sql.cpp     one Statement per named block, the positions of its columns, and
#                                 `statements()`, which lists them
#   <engine>/migrations.cpp       `migrations()`, ordered by number, with the SHA-256 of each
#   <engine>/grants.cpp           a text for each file of grants/
function(dovetail_embed_sql target engine)
  set(source_dir ${CMAKE_CURRENT_SOURCE_DIR}/${engine})
  set(output_dir ${CMAKE_CURRENT_BINARY_DIR}/generated/${engine})
  # The SQL of all engines, because their columns are compared.
  file(GLOB inputs CONFIGURE_DEPENDS
       ${CMAKE_CURRENT_SOURCE_DIR}/*/sql/*.sql ${source_dir}/grants/*.sql)
  file(GLOB_RECURSE migrations CONFIGURE_DEPENDS ${source_dir}/migrations/*.sql)
  set(outputs sql.hpp sql.cpp migrations.cpp grants.cpp)
  list(TRANSFORM outputs PREPEND ${output_dir}/)
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND ${CMAKE_COMMAND} -DENGINE=${engine} -DSOURCE_DIR=${source_dir}
            -DOUTPUT_DIR=${output_dir}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_sql.cmake
    DEPENDS ${inputs} ${migrations} ${PROJECT_SOURCE_DIR}/cmake/embed_sql.cmake
    COMMENT "Embedding the SQL of ${engine}")
  target_sources(${target} PRIVATE ${outputs})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
