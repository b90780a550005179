; What the published query leaves out: fields of classes.

(class_definition
  body: (block
    (expression_statement
      (assignment left: (identifier) @name) @definition.field)))
