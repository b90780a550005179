; What the published query leaves out: values, and fields of classes.

(variable_declarator
  name: (identifier) @name
  value: [(arrow_function) (function_expression)]) @definition.function
(variable_declarator name: (identifier) @name) @definition.variable
(field_definition property: (property_identifier) @name) @definition.field
