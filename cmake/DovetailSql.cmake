# dovetail_embed_sql(target engine): turns <engine>/sql/*.sql and <engine>/migrations/*.sql into generated C++.
#   <engine>/sql.hpp, sql.cpp     one Statement per named block, the positions of its columns, and `statements()` that lists them
#   <engine>/migrations.cpp       `migrations()`, in the order of their numbers, with the SHA-256 of each
#   <engine>/grants.cpp           a text for each file of grants/
function(dovetail_embed_sql target engine)
  set(source_dir ${CMAKE_CURRENT_SOURCE_DIR}/${engine})
  set(output_dir ${CMAKE_CURRENT_BINARY_DIR}/generated/${engine})
  # The SQL of all engines: their statements are compared.
  file(GLOB inputs CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/sql/*.sql ${source_dir}/grants/*.sql)
  file(GLOB_RECURSE migrations CONFIGURE_DEPENDS ${source_dir}/migrations/*.sql)
  set(outputs ${output_dir}/sql.hpp ${output_dir}/sql.cpp ${output_dir}/migrations.cpp ${output_dir}/grants.cpp)
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND ${CMAKE_COMMAND} -DENGINE=${engine} -DSOURCE_DIR=${source_dir} -DOUTPUT_DIR=${output_dir}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_sql.cmake
    DEPENDS ${inputs} ${migrations} ${PROJECT_SOURCE_DIR}/cmake/embed_sql.cmake
    COMMENT "Embedding the SQL of ${engine}")
  target_sources(${target} PRIVATE ${outputs})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
